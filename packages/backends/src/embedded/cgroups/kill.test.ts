import { readFileSync } from "node:fs"
import { access } from "node:fs/promises"
import { dirname, join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { describe, expect, onTestFinished, vi } from "vitest"
import type { Cgroup } from "./cgroups.ts"
import type { Freezer } from "./freezer.ts"
import { killStopped } from "./kill.ts"
import { HOST, onlyV2, openHere, SMALL, soon } from "./testing/host.ts"
import { shellInside } from "./testing/process.ts"

const FORKS = "while :; do sleep 0.001; done"

const VIEWS = [
  ["all hierarchies of this host", async () => ({})],
  ["the v2 hierarchy alone", async () => ({ procMounts: await onlyV2() })],
] as const

/** The cgroup's directory in the hierarchy that can freeze it. */
const freezerOf = async ({ joinFiles }: Cgroup): Promise<Freezer> => {
  const candidates = joinFiles.map(dirname).flatMap((directory) => [
    { version: 1 as const, directory, file: "freezer.state" },
    { version: 2 as const, directory, file: "cgroup.freeze" },
  ])
  for (const { version, directory, file } of candidates) {
    const there = await access(join(directory, file)).then(
      () => true,
      () => false,
    )
    if (there) return { version, directory }
  }
  throw new Error("nothing here can be frozen")
}

/** Reads synchronously, so that the state is that of this very moment. */
const readState = ({ version, directory }: Freezer): string => {
  const frozen =
    version === 1
      ? readFileSync(join(directory, "freezer.state"), "utf8") === "FROZEN\n"
      : readFileSync(join(directory, "cgroup.events"), "utf8").includes("frozen 1\n")
  return frozen ? "frozen" : "running"
}

describe.each(HOST.v2 === undefined ? VIEWS.slice(0, 1) : VIEWS)("with %s", (_, view) => {
  requires("root").it(
    "freezes all processes of a cgroup before it kills the first, so that none escapes",
    async () => {
      const { cgroups } = await openHere(await view())
      const cgroup = await cgroups.create(newId.sandbox(), SMALL)
      const all = [await shellInside(cgroup, FORKS), await shellInside(cgroup, FORKS)]
      const freezer = await freezerOf(cgroup)
      const stateAtKill: string[] = []
      const kill = process.kill.bind(process)
      const spy = vi.spyOn(process, "kill").mockImplementation((pid, signal) => {
        stateAtKill.push(readState(freezer))
        return kill(pid, signal)
      })
      onTestFinished(() => spy.mockRestore())
      await killStopped(cgroup.joinFiles.map(dirname), freezer, soon())
      expect(stateAtKill.length).toBeGreaterThanOrEqual(all.length)
      // A v2 cgroup does not call itself frozen while a killed process is on its way out.
      expect(stateAtKill[0]).toBe("frozen")
      for (const { ended } of all) expect((await ended).signal).toBe("SIGKILL")
      await expect.poll(() => cgroup.pids()).toEqual([])
      expect(await cgroup.isFrozen()).toBe(false)
    },
  )
})
