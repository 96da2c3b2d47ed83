-- Rows of an edition that its app does not name are not there: a large change is written beside the current
-- ones. The columns keep their order, which is part of the digests of rows.
CREATE TABLE car_13 (
    rule_id TEXT NOT NULL, app_id TEXT NOT NULL, key TEXT NOT NULL,
    rate BIGINT NOT NULL, max_permits BIGINT NOT NULL, need_permits BIGINT NOT NULL, pre_permits BIGINT NOT NULL,
    g_micro BIGINT NOT NULL, u_micro BIGINT NOT NULL, extras TEXT NOT NULL, description TEXT NOT NULL,
    per TEXT NOT NULL, sharing TEXT NOT NULL, on_store_failure TEXT NOT NULL, state TEXT NOT NULL,
    search TEXT NOT NULL, etag BIGINT NOT NULL, updated_at BIGINT NOT NULL, updated_by TEXT NOT NULL,
    bucket TEXT NOT NULL DEFAULT '', trial_rate BIGINT NOT NULL DEFAULT 0,
    trial_max_permits BIGINT NOT NULL DEFAULT 0, post_paid BIGINT NOT NULL DEFAULT 0,
    edition TEXT NOT NULL DEFAULT '', PRIMARY KEY (rule_id, edition));
INSERT INTO car_13 SELECT rule_id, app_id, key, rate, max_permits, need_permits, pre_permits, g_micro, u_micro,
    extras, description, per, sharing, on_store_failure, state, search, etag, updated_at, updated_by, bucket,
    trial_rate, trial_max_permits, post_paid, '' FROM car;
DROP TABLE car;
ALTER TABLE car_13 RENAME TO car;
CREATE UNIQUE INDEX car_by_key ON car (app_id, edition, key);
CREATE INDEX car_by_time ON car (updated_at);
CREATE TABLE rule_files_13 (
    rule_id TEXT PRIMARY KEY, app_id TEXT NOT NULL REFERENCES apps (id), domain TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL, description TEXT NOT NULL, state TEXT NOT NULL, etag BIGINT NOT NULL,
    updated_at BIGINT NOT NULL, updated_by TEXT NOT NULL);
INSERT INTO rule_files_13 SELECT rule_id, app_id, domain, text, description, state, etag, updated_at, updated_by
    FROM rule_files;
DROP TABLE rule_files;
ALTER TABLE rule_files_13 RENAME TO rule_files;
CREATE INDEX rule_files_by_app ON rule_files (app_id, domain);
-- It had no more than the two tables above.
DROP TABLE rules;
-- Operations are written before their change set is.
CREATE TABLE change_ops_13 (
    change_id TEXT NOT NULL, seq BIGINT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    base_from_version BIGINT, base_body TEXT, body TEXT, PRIMARY KEY (change_id, seq),
    UNIQUE (change_id, kind, key));
INSERT INTO change_ops_13 SELECT change_id, seq, kind, key, base_from_version, base_body, body FROM change_ops;
DROP TABLE change_ops;
ALTER TABLE change_ops_13 RENAME TO change_ops;
ALTER TABLE apps ADD COLUMN edition TEXT NOT NULL DEFAULT '';
ALTER TABLE apps ADD COLUMN reserved BIGINT NOT NULL DEFAULT 0;
CREATE TABLE staged (
    app_id TEXT NOT NULL, edition TEXT NOT NULL, version BIGINT NOT NULL, change_id TEXT NOT NULL,
    state TEXT NOT NULL, PRIMARY KEY (app_id, edition)) WITHOUT ROWID;
