import { dirname } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { describe, expect, it } from "vitest"
import { killStopped } from "./kill.ts"
import { HOST, onlyV2, openHere, SMALL, soon } from "./testing/host.ts"
import { shellInside } from "./testing/process.ts"

const onV2 = HOST.v2 === undefined ? describe.skip : requires("root").describe

onV2("killStopped on a v2 hierarchy, for kernels that cannot kill it as a whole", () => {
  it("kills every process in one go, and leaves nothing frozen", async () => {
    const { cgroups } = await openHere({ procMounts: await onlyV2() })
    const cgroup = await cgroups.create(newId.sandbox(), SMALL)
    const forking = "while :; do sleep 0.001; done"
    const all = await Promise.all([1, 2, 3].map(() => shellInside(cgroup, forking)))
    const [directory = ""] = cgroup.joinFiles.map(dirname)
    await killStopped([directory], { version: 2, directory }, soon())
    for (const { ended } of all) expect((await ended).signal).toBe("SIGKILL")
    await expect.poll(() => cgroup.pids()).toEqual([])
    expect(await cgroup.isFrozen()).toBe(false)
  })
})
