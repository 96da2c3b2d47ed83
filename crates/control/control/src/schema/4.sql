CREATE TABLE overrides (
    id TEXT PRIMARY KEY, domain TEXT NOT NULL, entries TEXT NOT NULL, app TEXT NOT NULL, action TEXT NOT NULL,
    until BIGINT NOT NULL, reason TEXT NOT NULL, author TEXT NOT NULL, created_at BIGINT NOT NULL,
    removed_at BIGINT);
CREATE INDEX overrides_by_end ON overrides (until);
CREATE INDEX overrides_by_domain ON overrides (domain, until);
INSERT INTO sequences VALUES ('overrides', 0);
