CREATE TABLE apps (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL, version BIGINT NOT NULL,
    state TEXT NOT NULL, source TEXT NOT NULL, approvals BIGINT NOT NULL, etag BIGINT NOT NULL,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL);
CREATE TABLE domains (domain TEXT PRIMARY KEY, app_id TEXT NOT NULL REFERENCES apps (id));
CREATE TABLE rules (
    id TEXT PRIMARY KEY, app_id TEXT NOT NULL REFERENCES apps (id), kind TEXT NOT NULL, key TEXT NOT NULL,
    UNIQUE (app_id, kind, key));
CREATE TABLE car (
    rule_id TEXT PRIMARY KEY REFERENCES rules (id), app_id TEXT NOT NULL REFERENCES apps (id), key TEXT NOT NULL,
    rate BIGINT NOT NULL, max_permits BIGINT NOT NULL, need_permits BIGINT NOT NULL, pre_permits BIGINT NOT NULL,
    g_micro BIGINT NOT NULL, u_micro BIGINT NOT NULL, extras TEXT NOT NULL, description TEXT NOT NULL,
    per TEXT NOT NULL, sharing TEXT NOT NULL, on_store_failure TEXT NOT NULL, state TEXT NOT NULL,
    search TEXT NOT NULL, etag BIGINT NOT NULL, updated_at BIGINT NOT NULL, updated_by TEXT NOT NULL);
CREATE UNIQUE INDEX car_by_key ON car (app_id, key);
CREATE INDEX car_by_time ON car (updated_at);
CREATE TABLE rule_versions (
    rule_id TEXT NOT NULL, from_version BIGINT NOT NULL, app_id TEXT NOT NULL, to_version BIGINT,
    body TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (rule_id, from_version));
CREATE INDEX rule_versions_by_app ON rule_versions (app_id, to_version);
CREATE TABLE versions (
    app_id TEXT NOT NULL REFERENCES apps (id), version BIGINT NOT NULL, kind TEXT NOT NULL, change_id TEXT,
    document TEXT, sha256 TEXT NOT NULL, author TEXT NOT NULL, comment TEXT NOT NULL,
    created_at BIGINT NOT NULL, PRIMARY KEY (app_id, version));
CREATE TABLE users (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, display TEXT NOT NULL, password_hash TEXT,
    state TEXT NOT NULL, etag BIGINT NOT NULL, created_at BIGINT NOT NULL, last_login_at BIGINT);
CREATE TABLE role_bindings (
    user_id TEXT NOT NULL REFERENCES users (id), app TEXT NOT NULL, role TEXT NOT NULL,
    PRIMARY KEY (user_id, app));
CREATE TABLE logins (
    sha256 TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users (id), created_at BIGINT NOT NULL,
    last_seen BIGINT NOT NULL, expires_at BIGINT NOT NULL, ip TEXT NOT NULL);
CREATE INDEX logins_by_user ON logins (user_id);
CREATE INDEX logins_by_end ON logins (expires_at);
CREATE TABLE audit (
    seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, actor_kind TEXT NOT NULL, actor TEXT NOT NULL, ip TEXT NOT NULL,
    request_id TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL, app TEXT, before TEXT, after TEXT,
    reason TEXT NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL);
CREATE INDEX audit_by_app ON audit (app, seq);
CREATE INDEX audit_by_actor ON audit (actor, seq);
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'audit entries are never changed'); END;
CREATE TRIGGER audit_is_never_removed BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'audit entries are never removed'); END;
CREATE TABLE sequences (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL, etag BIGINT NOT NULL);
INSERT INTO sequences VALUES ('audit', 0);
