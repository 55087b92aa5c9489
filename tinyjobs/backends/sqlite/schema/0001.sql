-- Version 1. Each hot index has its own nullable column, set only while a job stands there, and statements ask that
-- column, never the status: ready_at (a claim may take it), due_at (delayed), lease_expires_at (running), waiting_on
-- (waits for another job), held_at (waits for room under its task's limit), lapses_at (has an expiry and never
-- started). So no path pays for rows of another.
CREATE TABLE {prefix}_meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE {prefix}_jobs (
    id TEXT NOT NULL PRIMARY KEY,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 1,
    hand_backs INTEGER NOT NULL DEFAULT 0,
    claims INTEGER NOT NULL DEFAULT 0,
    run_at REAL NOT NULL,
    created_at REAL NOT NULL,
    started_at REAL NULL,
    finished_at REAL NULL,
    ready_at REAL NULL,
    due_at REAL NULL,
    lease_expires_at REAL NULL,
    held_at REAL NULL,
    lapses_at REAL NULL,
    expires_at REAL NULL,
    scheduled_for REAL NULL,
    waiting_on TEXT NULL,
    runs_after TEXT NULL,
    worker_id TEXT NULL,
    dedup_key TEXT NULL,
    active_key TEXT NULL,
    codec TEXT NOT NULL DEFAULT 'json',
    last_error TEXT NULL,
    metadata TEXT NULL,
    payload BLOB NOT NULL,
    result BLOB NULL
) WITHOUT ROWID;

CREATE INDEX {prefix}_jobs_ready ON {prefix}_jobs (queue, priority DESC, ready_at, id) WHERE ready_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_due ON {prefix}_jobs (due_at, id) WHERE due_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_lease ON {prefix}_jobs (lease_expires_at) WHERE lease_expires_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_waiting ON {prefix}_jobs (waiting_on) WHERE waiting_on IS NOT NULL;

CREATE INDEX {prefix}_jobs_held ON {prefix}_jobs (task, queue, priority DESC, held_at, id) WHERE held_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_lapse ON {prefix}_jobs (lapses_at, id) WHERE lapses_at IS NOT NULL;

CREATE UNIQUE INDEX {prefix}_jobs_key ON {prefix}_jobs (active_key) WHERE active_key IS NOT NULL;

CREATE INDEX {prefix}_jobs_ended ON {prefix}_jobs (status, finished_at) WHERE finished_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_unsuccessful ON {prefix}_jobs (status, id) WHERE status IN ('failed', 'cancelled');

CREATE INDEX {prefix}_jobs_by_queue ON {prefix}_jobs (queue, id);

CREATE TABLE {prefix}_executions (
    job_id TEXT NOT NULL,
    claim INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL,
    worker_id TEXT NOT NULL,
    started_at REAL NOT NULL,
    finished_at REAL NULL,
    error_type TEXT NULL,
    traceback TEXT NULL,
    PRIMARY KEY (job_id, claim)
) WITHOUT ROWID;

CREATE TABLE {prefix}_schedules (
    name TEXT NOT NULL PRIMARY KEY,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    next_run_at REAL NOT NULL,
    last_run_at REAL NULL,
    last_job_id TEXT NULL,
    task TEXT NOT NULL,
    payload BLOB NULL,
    codec TEXT NOT NULL DEFAULT 'json',
    queue TEXT NULL,
    priority INTEGER NULL,
    misfire TEXT NOT NULL DEFAULT 'skip',
    overlap INTEGER NOT NULL DEFAULT 0,
    source TEXT NOT NULL DEFAULT 'code',
    error TEXT NULL,
    skips INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE {prefix}_limits (
    task TEXT NOT NULL PRIMARY KEY,
    last_at REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE {prefix}_workers (
    worker_id TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    started_at REAL NOT NULL,
    seen_at REAL NOT NULL,
    queues TEXT NOT NULL DEFAULT '[]',
    threads INTEGER NOT NULL DEFAULT 0,
    coroutines INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    is_stopping INTEGER NOT NULL DEFAULT 0,
    scheduled_at REAL NULL
) WITHOUT ROWID;

-- Kept counters, written in the transaction of what they count. success, failed and cancelled are the change in how many
-- jobs stand with that status: their sums over all rows are the counts. The others tell what ended in that minute, or in
-- as many minutes as the row stands for. An owner's rows are written by nobody else at the same time.
CREATE TABLE {prefix}_tallies (
    minute INTEGER NOT NULL,
    owner TEXT NOT NULL,
    queue TEXT NOT NULL,
    minutes INTEGER NOT NULL DEFAULT 1,
    success INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    succeeded INTEGER NOT NULL DEFAULT 0,
    unsuccessful INTEGER NOT NULL DEFAULT 0,
    ended_cancelled INTEGER NOT NULL DEFAULT 0,
    waited REAL NOT NULL DEFAULT 0,
    ran REAL NOT NULL DEFAULT 0,
    longest_wait REAL NOT NULL DEFAULT 0,
    longest_run REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (minute, owner, queue)
) WITHOUT ROWID;
