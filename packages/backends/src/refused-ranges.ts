import type { Ipv4Range } from "@berth/protocol/network"

/**
 * Ranges that are not the internet, from IANA's registry of special-purpose addresses. The documentation ranges
 * (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24) are not in it: nothing that must be hidden lives there.
 */
export const REFUSED_RANGES: readonly Ipv4Range[] = [
  "0.0.0.0/8", // this network
  "10.0.0.0/8", // private
  "100.64.0.0/10", // carrier-grade NAT
  "127.0.0.0/8", // loopback
  "169.254.0.0/16", // link-local, with the metadata service of the clouds
  "172.16.0.0/12", // private
  "192.0.0.0/24", // IETF protocol assignments
  "192.88.99.0/24", // the former 6to4 relays
  "192.168.0.0/16", // private
  "198.18.0.0/15", // benchmarks
  "224.0.0.0/4", // multicast
  "240.0.0.0/4", // reserved, with the broadcast address
]
