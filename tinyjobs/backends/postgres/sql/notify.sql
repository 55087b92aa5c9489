-- Never beside the write of a job: the commit of a notification locks out those of every other one in the database.
SELECT pg_notify({part:channel}, told.topic)
FROM {tables}_meta AS meta CROSS JOIN unnest(string_to_array(%s::text, ',')) AS told (topic)
WHERE meta.key = 'instance'
