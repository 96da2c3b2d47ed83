-- SHA-256 of the documents as nodes hold them; absent for versions whose documents were removed before.
ALTER TABLE versions ADD COLUMN digest TEXT;
