import { z } from "zod"

/** An IPv4 range in CIDR form, normalised to its network address. */
export const Ipv4Range = z.cidrv4().transform((text) => {
  const [address = "", bits = "32"] = text.split("/")
  const length = Number(bits)
  const mask = length === 0 ? 0 : (0xffffffff << (32 - length)) >>> 0
  const value = address.split(".").reduce((sum, part) => ((sum << 8) | Number(part)) >>> 0, 0)
  const network = (value & mask) >>> 0
  const octets = [24, 16, 8, 0].map((shift) => (network >>> shift) & 255)
  return `${octets.join(".")}/${length}`
})
export type Ipv4Range = z.infer<typeof Ipv4Range>

/**
 * The addresses that a sandbox may connect to. `open` is the internet and nothing else: no neighbour, no service of the
 * host, no private or link-local range but those listed in `allow`.
 */
export const NetworkPolicy = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("none") }),
  z.strictObject({ kind: z.literal("open"), allow: z.array(Ipv4Range).default([]) }),
])
export type NetworkPolicy = z.infer<typeof NetworkPolicy>
