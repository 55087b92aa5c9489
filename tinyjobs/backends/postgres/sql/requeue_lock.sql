-- Whether the job may be put back, and whether it then wants its key again.
SELECT dedup_key IS NOT NULL FROM {tables}_jobs WHERE id = %s::text AND status IN ('failed', 'cancelled') FOR UPDATE
