-- When a sweep last began; long ago, if the marker cannot be read.
CASE WHEN meta.value ~ '^[0-9]+([.][0-9]+)?$' THEN meta.value::float8 ELSE 0 END
