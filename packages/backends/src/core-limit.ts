/**
 * The limit of core dumps inside. The kernel starts a handler of the host's (`kernel.core_pattern` with a pipe) as the
 * host's root for every limit, zero included, except for 1, with which it gives up. A file does not fit into 1 byte
 * either.
 */
export const CORE_LIMIT_BYTES = 1
