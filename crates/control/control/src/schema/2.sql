CREATE TABLE rule_files (
    rule_id TEXT PRIMARY KEY REFERENCES rules (id), app_id TEXT NOT NULL REFERENCES apps (id),
    domain TEXT NOT NULL UNIQUE, text TEXT NOT NULL, description TEXT NOT NULL, state TEXT NOT NULL,
    etag BIGINT NOT NULL, updated_at BIGINT NOT NULL, updated_by TEXT NOT NULL);
CREATE INDEX rule_files_by_app ON rule_files (app_id, domain);
CREATE TABLE changes (
    id TEXT PRIMARY KEY, app_id TEXT NOT NULL REFERENCES apps (id), state TEXT NOT NULL, title TEXT NOT NULL,
    comment TEXT NOT NULL, author_id TEXT NOT NULL, author TEXT NOT NULL, base_version BIGINT NOT NULL,
    published_version BIGINT, content_sha256 TEXT NOT NULL, etag BIGINT NOT NULL, created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL);
CREATE INDEX changes_by_app ON changes (app_id, state, id);
CREATE TABLE change_ops (
    change_id TEXT NOT NULL REFERENCES changes (id), seq BIGINT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    base_from_version BIGINT, base_body TEXT, body TEXT, PRIMARY KEY (change_id, seq),
    UNIQUE (change_id, kind, key));
CREATE TABLE approvals (
    change_id TEXT NOT NULL REFERENCES changes (id), seq BIGINT NOT NULL, user_id TEXT NOT NULL,
    user_name TEXT NOT NULL, verdict TEXT NOT NULL, comment TEXT NOT NULL, content_sha256 TEXT NOT NULL,
    at BIGINT NOT NULL, PRIMARY KEY (change_id, seq));
CREATE INDEX rule_versions_by_version ON rule_versions (app_id, from_version);
