import type { SandboxId } from "@berth/protocol/ids"
import type { BackendEvent } from "../backend.ts"
import { openWatchers, type Watchers } from "../watchers.ts"
import type { Cgroups } from "./cgroups/cgroups.ts"
import type { Exits } from "./exits.ts"
import { describeExit } from "./observe.ts"

/** Announces to each watcher the exits that conmon writes down while it watches. */
export const openExitWatchers = (exits: Exits, cgroups: Pick<Cgroups, "open">): Watchers => {
  const announce = async (sandbox: SandboxId, emit: (event: BackendEvent) => void) => {
    const record = await exits.read(sandbox)
    if (record === undefined) return
    emit({ kind: "exited", sandbox, exit: await describeExit(record, cgroups.open(sandbox)) })
  }
  return openWatchers((emit) =>
    exits.subscribe(
      (sandbox) => {
        announce(sandbox, emit).catch(() => emit({ kind: "resync" }))
      },
      () => emit({ kind: "resync" }),
    ),
  )
}
