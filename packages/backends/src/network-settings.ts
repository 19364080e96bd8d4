/**
 * Settings of a sandbox's own network namespace. The kernel keeps closed connections of TCP for a minute, in memory that no limit counts; by
 * default a quarter of a million of them.
 */
export const NETWORK_SETTINGS = { "net.ipv4.tcp_max_tw_buckets": "8192" }
