-- Nodes that have attached, until somebody removes them: one that is away may still decide by what it holds.
CREATE TABLE nodes (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, address TEXT NOT NULL, software TEXT NOT NULL, labels TEXT NOT NULL,
    language BIGINT NOT NULL, local_domains TEXT NOT NULL, first_seen BIGINT NOT NULL, last_seen BIGINT NOT NULL)
    WITHOUT ROWID;
