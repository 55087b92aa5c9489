"""The crash harness that `tinyjobs verify` runs: workers that are killed, on a store of the reader's own.

It sends numbered jobs, stops workers in the worst ways there are, and then matches by number what was sent, what the
store holds and what was done. It needs POSIX signals, and knows a store by its URL and the protocol alone.
"""
