import { createHash } from "node:crypto"
import type { SandboxId } from "@berth/protocol/ids"
import { toAddress } from "./ipv4.ts"
import type { Pool } from "./pool.ts"

/**
 * Yields every address of the pool, from one that the sandbox's id chooses: so an address is seldom used again soon,
 * and two installations on one host seldom choose the same.
 */
export function* candidates(sandbox: SandboxId, { addresses }: Pool): Generator<string> {
  const count = addresses.last - addresses.first + 1
  const start = createHash("sha256").update(sandbox).digest().readUInt32BE() % count
  for (let step = 0; step < count; step++) {
    yield toAddress(addresses.first + ((start + step) % count))
  }
}
