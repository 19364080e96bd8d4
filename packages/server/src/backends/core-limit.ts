/**
 * The limit of core dumps inside. The kernel starts a handler of the host's (`kernel.core_pattern` with a pipe) as the host's root whatever
 * the limit is, zero included, but for this one, with which it gives up. It is too small for a file as well.
 */
export const CORE_LIMIT_BYTES = 1
