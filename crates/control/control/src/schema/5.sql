ALTER TABLE users ADD COLUMN link_sha256 TEXT;
ALTER TABLE users ADD COLUMN link_until BIGINT;
ALTER TABLE users ADD COLUMN locale TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN theme TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN zone TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX users_by_link ON users (link_sha256);
ALTER TABLE logins ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN via TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_by_time ON audit (at);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL, owner TEXT REFERENCES users (id), rights TEXT NOT NULL, created_at BIGINT NOT NULL,
    expires_at BIGINT, last_used_at BIGINT, revoked_at BIGINT);
CREATE INDEX tokens_by_owner ON tokens (owner);
