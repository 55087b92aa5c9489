-- One for each store, however its tables are found. A hash always fits in a channel's name.
'tinyjobs_' || left(encode(sha256(convert_to(meta.value, 'UTF8')), 'hex'), 16)
