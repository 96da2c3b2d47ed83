-- A series is what a rule counted; the rule '' is the total of its domain, and of the domain '' that of all.
CREATE TABLE series (
    id INTEGER PRIMARY KEY, domain TEXT NOT NULL, rule TEXT NOT NULL, hour BIGINT NOT NULL,
    last_used BIGINT NOT NULL, UNIQUE (domain, rule));
CREATE INDEX series_by_hour ON series (hour);
CREATE TABLE history (
    res BIGINT NOT NULL, series BIGINT NOT NULL, at BIGINT NOT NULL, admitted BIGINT NOT NULL,
    denied BIGINT NOT NULL, shadow_denied BIGINT NOT NULL, degraded BIGINT NOT NULL, near BIGINT NOT NULL,
    PRIMARY KEY (res, series, at)) WITHOUT ROWID;
CREATE TABLE top_keys (
    series BIGINT NOT NULL, at BIGINT NOT NULL, key TEXT NOT NULL, denied BIGINT NOT NULL,
    PRIMARY KEY (series, at, key)) WITHOUT ROWID;
CREATE INDEX top_keys_by_time ON top_keys (at);
CREATE TABLE reported (
    node TEXT NOT NULL, incarnation BIGINT NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL,
    PRIMARY KEY (node, incarnation)) WITHOUT ROWID;
CREATE INDEX reported_by_time ON reported (at);
