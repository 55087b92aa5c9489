-- What the index of keys holds of a key.
encode(sha256(convert_to(given.key, 'UTF8')), 'hex')
