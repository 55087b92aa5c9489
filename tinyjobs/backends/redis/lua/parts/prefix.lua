-- KEYS[1] is the prefix, whose hash tag puts all keys in one slot.
local P = KEYS[1] .. ':'
