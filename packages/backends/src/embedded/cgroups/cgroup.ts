import { access } from "node:fs/promises"
import { join, relative } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Cgroup } from "./cgroups.ts"
import type { Base } from "./find-base.ts"
import { type Freezer, freeze, isFrozen, thaw } from "./freezer.ts"
import type { Place } from "./hierarchy.ts"
import { killAll } from "./kill.ts"
import { setLimits } from "./limits.ts"
import { readOomKills } from "./oom-kills.ts"
import { processesIn } from "./processes.ts"
import { reclaim } from "./reclaim.ts"
import { removeCgroup } from "./remove.ts"

/** A sandbox's cgroup, which is one directory in each of the hierarchies in use. */
export const cgroupOf = (
  bases: readonly Base[],
  { group, sandbox }: { group: string; sandbox: SandboxId },
): Cgroup => {
  const places: readonly Place[] = bases.map((base) => ({
    version: base.hierarchy.version,
    controllers: base.controllers,
    directory: join(base.group, sandbox),
  }))
  const directories = places.map((place) => place.directory)
  const freezer: Freezer | undefined = places.find((place) => place.controllers.has("freezer"))
  const withFreezer = <Result>(use: (freezer: Freezer) => Promise<Result>) =>
    freezer ? use(freezer) : Promise.reject(unsupported("freeze or thaw processes"))
  const tracked = <Result>(use: () => Promise<Result>) =>
    places.length > 0
      ? use()
      : Promise.reject(unsupported("tell a sandbox's processes from others"))

  return {
    // A single thread that moves itself by `tasks` need not wait until every processor has noticed; only v1 has that
    // file.
    joinFiles: places.map(({ version, directory }) =>
      join(directory, version === 1 ? "tasks" : "cgroup.procs"),
    ),
    path: pathOf(bases[0], { group, sandbox }),
    setLimits: async (limits) => {
      await Promise.all(places.map((place) => setLimits(place, limits)))
    },
    freeze: (signal) => withFreezer((it) => freeze(it, signal)),
    thaw: (signal) => withFreezer((it) => thaw(it, signal)),
    isFrozen: async () => freezer !== undefined && isFrozen(freezer),
    reclaim: (signal) => reclaim(places, signal),
    pids: () => tracked(() => processesIn(directories)),
    kill: (signal) => tracked(() => killAll(places, freezer, signal)),
    oomKills: () => readOomKills(places),
    exists: async () => (await Promise.all(directories.map(isThere))).some(Boolean),
    remove: (signal) =>
      removeCgroup(
        directories,
        bases.map((base) => base.group),
        signal,
      ),
  }
}

const pathOf = (
  base: Base | undefined,
  { group, sandbox }: { group: string; sandbox: SandboxId },
) =>
  base === undefined
    ? join("/", group, sandbox)
    : join("/", relative(base.hierarchy.mount, base.group), sandbox)

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

const unsupported = (what: string) =>
  new BerthError("backend.unsupported", `this host's cgroups cannot ${what}`)
