import { performance } from "node:perf_hooks"
import { Throttle } from "@berth/host/throttle"
import type { SandboxId } from "@berth/protocol/ids"

/** Milliseconds of processor time for frames of one sandbox: a tenth of a core, after a burst of half a second. */
const PARSE_MS = { perSecond: 100, burst: 500 } as const

interface Share extends Disposable {
  readonly parsing: Throttle
}

/** The processor time that each sandbox's frames may take, over all of its WebSockets. */
export class ParsingShares {
  readonly #taken = new Map<SandboxId, { readonly parsing: Throttle; count: number }>()

  /** The share of a sandbox, to be given back with the connection. A share without connections is forgotten. */
  take(sandbox: SandboxId): Share {
    const share = this.#taken.get(sandbox) ?? {
      parsing: new Throttle(PARSE_MS, performance.now()),
      count: 0,
    }
    share.count += 1
    this.#taken.set(sandbox, share)
    return {
      parsing: share.parsing,
      [Symbol.dispose]: () => {
        share.count -= 1
        if (share.count === 0) this.#taken.delete(sandbox)
      },
    }
  }
}
