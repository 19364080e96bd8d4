import { createHash } from "node:crypto"
import { ConfigHash, SandboxConfig } from "@berth/protocol/sandbox"
import type { z } from "zod"

/**
 * The identity of a config: two configs with the same hash make the same sandbox, so a running one with another hash is
 * stale. Parsing first fills in defaults and normal forms, so that how a value was written does not matter.
 */
export const configHash = (config: z.input<typeof SandboxConfig>): ConfigHash =>
  ConfigHash.parse(
    createHash("sha256")
      .update(JSON.stringify(sortKeys(withoutOrder(SandboxConfig.parse(config)))))
      .digest("hex"),
  )

/** Sorts the lists in which order and repetition mean nothing. */
const withoutOrder = (config: SandboxConfig): SandboxConfig => ({
  ...config,
  mounts: config.mounts.toSorted((a, b) => compare(a.target, b.target)),
  network:
    config.network.kind === "open"
      ? { ...config.network, allow: asSet(config.network.allow) }
      : config.network,
  hardening: { ...config.hardening, capabilities: asSet(config.hardening.capabilities) },
})

const asSet = (values: readonly string[]): string[] => [...new Set(values)].sort(compare)

/** Compares by code unit: the same on every machine, whatever its locale. */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const sortKeys = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (value === null || typeof value !== "object") return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => compare(a, b))
      .map(([key, inner]) => [key, sortKeys(inner)]),
  )
}
