-- Version 1. Each hot index has its own nullable column, set only while a job stands there, and statements ask that
-- column, never the status: ready_at (a claim may take it), due_at (delayed), waiting_on (waits for another job),
-- held_at (waits for room under its task's limit), lapses_at (has an expiry and never started). Running jobs alone are
-- found by their status: an index on the lease would keep every heartbeat from being a heap-only update. Names and ids
-- sort as bytes, whatever the database's locale. A row is updated a few times in its life, so its page keeps some room,
-- and vacuum comes often.
-- active_key is a digest of the key, so that no key is too long for an index.
CREATE TABLE {tables}_meta (
    key text COLLATE "C" NOT NULL PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE {tables}_jobs (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    task text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    priority integer NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 1,
    hand_backs integer NOT NULL DEFAULT 0,
    claims integer NOT NULL DEFAULT 0,
    run_at double precision NOT NULL,
    created_at double precision NOT NULL,
    started_at double precision NULL,
    finished_at double precision NULL,
    ready_at double precision NULL,
    due_at double precision NULL,
    lease_expires_at double precision NULL,
    held_at double precision NULL,
    lapses_at double precision NULL,
    expires_at double precision NULL,
    scheduled_for double precision NULL,
    waiting_on text COLLATE "C" NULL,
    runs_after text COLLATE "C" NULL,
    worker_id text COLLATE "C" NULL,
    dedup_key text COLLATE "C" NULL,
    active_key text COLLATE "C" NULL,
    codec text COLLATE "C" NOT NULL DEFAULT 'json',
    last_error text NULL,
    metadata text NULL,
    payload bytea NOT NULL,
    result bytea NULL
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX {prefix}_jobs_ready ON {tables}_jobs (queue, priority DESC, ready_at, id) WHERE ready_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_due ON {tables}_jobs (due_at, id) WHERE due_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_running ON {tables}_jobs (id) WHERE status = 'running';

CREATE INDEX {prefix}_jobs_waiting ON {tables}_jobs (waiting_on) WHERE waiting_on IS NOT NULL;

CREATE INDEX {prefix}_jobs_held ON {tables}_jobs (task, queue, priority DESC, held_at, id) WHERE held_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_lapse ON {tables}_jobs (lapses_at, id) WHERE lapses_at IS NOT NULL;

CREATE UNIQUE INDEX {prefix}_jobs_key ON {tables}_jobs (active_key) WHERE active_key IS NOT NULL;

CREATE INDEX {prefix}_jobs_ended ON {tables}_jobs (status, finished_at) WHERE finished_at IS NOT NULL;

CREATE INDEX {prefix}_jobs_unsuccessful ON {tables}_jobs (status, id) WHERE status IN ('failed', 'cancelled');

CREATE INDEX {prefix}_jobs_by_queue ON {tables}_jobs (queue, id);

CREATE TABLE {tables}_executions (
    job_id text COLLATE "C" NOT NULL,
    claim integer NOT NULL,
    attempt integer NOT NULL,
    status text COLLATE "C" NOT NULL,
    worker_id text COLLATE "C" NOT NULL,
    started_at double precision NOT NULL,
    finished_at double precision NULL,
    error_type text NULL,
    traceback text NULL,
    PRIMARY KEY (job_id, claim)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE {tables}_schedules (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    cron text NOT NULL,
    timezone text NOT NULL,
    next_run_at double precision NOT NULL,
    last_run_at double precision NULL,
    last_job_id text COLLATE "C" NULL,
    task text COLLATE "C" NOT NULL,
    payload bytea NULL,
    codec text COLLATE "C" NOT NULL DEFAULT 'json',
    queue text COLLATE "C" NULL,
    priority integer NULL,
    misfire text COLLATE "C" NOT NULL DEFAULT 'skip',
    overlap boolean NOT NULL DEFAULT false,
    source text COLLATE "C" NOT NULL DEFAULT 'code',
    error text NULL,
    skips integer NOT NULL DEFAULT 0
);

CREATE TABLE {tables}_limits (
    task text COLLATE "C" NOT NULL PRIMARY KEY,
    last_at double precision NOT NULL DEFAULT 0
);

CREATE TABLE {tables}_workers (
    worker_id text COLLATE "C" NOT NULL PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    started_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    queues text NOT NULL DEFAULT '[]',
    threads integer NOT NULL DEFAULT 0,
    coroutines integer NOT NULL DEFAULT 0,
    running integer NOT NULL DEFAULT 0,
    is_stopping boolean NOT NULL DEFAULT false,
    scheduled_at double precision NULL
) WITH (fillfactor = 50);

-- Kept counters, written in the transaction of what they count. success, failed and cancelled are the change in how many
-- jobs stand with that status: their sums over all rows are the counts. The others tell what ended in that minute, or in
-- as many minutes as the row stands for. An owner's rows are written by nobody else at the same time, and a row many
-- times in its minute, so its page keeps room.
CREATE TABLE {tables}_tallies (
    minute bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    minutes integer NOT NULL DEFAULT 1,
    success bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    succeeded bigint NOT NULL DEFAULT 0,
    unsuccessful bigint NOT NULL DEFAULT 0,
    ended_cancelled bigint NOT NULL DEFAULT 0,
    waited double precision NOT NULL DEFAULT 0,
    ran double precision NOT NULL DEFAULT 0,
    longest_wait double precision NOT NULL DEFAULT 0,
    longest_run double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (minute, owner, queue)
) WITH (fillfactor = 25, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
