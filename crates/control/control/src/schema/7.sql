ALTER TABLE apps ADD COLUMN rollout TEXT NOT NULL DEFAULT '';
CREATE TABLE rollouts (
    id TEXT PRIMARY KEY, app_id TEXT NOT NULL REFERENCES apps (id), from_version BIGINT NOT NULL,
    to_version BIGINT NOT NULL, withdrawn_version BIGINT, state TEXT NOT NULL, plan TEXT NOT NULL,
    step BIGINT NOT NULL, step_at BIGINT, reach TEXT NOT NULL, why TEXT, gates TEXT NOT NULL,
    term BIGINT NOT NULL, author TEXT NOT NULL, etag BIGINT NOT NULL, created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL);
CREATE UNIQUE INDEX rollouts_open ON rollouts (app_id) WHERE state IN ('running', 'paused', 'halted');
CREATE INDEX rollouts_by_app ON rollouts (app_id, to_version);
CREATE TABLE leases (name TEXT PRIMARY KEY, holder TEXT NOT NULL, term BIGINT NOT NULL);
