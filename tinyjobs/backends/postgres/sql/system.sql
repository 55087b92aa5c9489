-- The number of the cluster, the same on its standbys.
SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()
