import { readFile } from "node:fs/promises"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import type { Layers } from "./layers.ts"
import { openLayers } from "./open.ts"
import { AGENT, ID_BASE } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { keepMounted } from "./testing/mount.ts"
import { makeScenario } from "./testing/scenario.ts"
import { snapshotOne } from "./testing/snapshot-one.ts"
import { makeRootOnDisk, openForTest, view, work } from "./testing/store.ts"
import type { Freezer } from "./while-frozen.ts"

const shop = key("shop")
const fork = key("fork")

/** Stops one process as a cgroup stops all of a sandbox: it stands still once `freeze` resolves. */
const freezerOf = (pid: number): Freezer => ({
  freeze: async () => {
    process.kill(pid, "SIGSTOP")
    while (!/\) T /.test(await readFile(`/proc/${pid}/stat`, "latin1"))) {
      // A stop takes effect at the end of the system call.
    }
  },
  thaw: async () => {
    process.kill(pid, "SIGCONT")
  },
})

/** Writes two files in turn, as fast as it can; at any moment they differ by one at most. */
const WRITE_IN_TURN = `
mkdir -p turn; i=0; echo 0 > turn/a; echo 0 > turn/b
while :; do i=$((i+1)); echo $i > turn/a.new; mv turn/a.new turn/a; echo $i > turn/b.new; mv turn/b.new turn/b; done &
`

const runningSandbox = async (layers: Layers, script: string) => {
  await layers.ensureTop(shop, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(shop, sandbox)
  return { sandbox, top, running: await keepMounted(mount, script) }
}

requires("root").describe("a live snapshot", () => {
  it("holds the sandbox's files as they were at one moment, and the sandbox runs on", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await makeScenario(layers, shop)
    const { sandbox, running } = await runningSandbox(
      layers,
      `rm -r kept; mkdir kept; echo live > kept/live; mv very more; ${WRITE_IN_TURN} echo $! > writer`,
    )
    const writer = Number(await readFile(`/proc/${running.pid}/root/mnt/writer`, "utf8"))
    const { layer } = await snapshotOne(layers, shop, {
      sandbox,
      reason: "test",
      ...freezerOf(writer),
    })
    expect(await readFile(`/proc/${writer}/stat`, "latin1")).not.toMatch(/\) T /)
    process.kill(writer, "SIGKILL")
    await running.end()

    await layers.put(fork, layer)
    const shown = await work(
      layers,
      fork,
      "cat turn/a turn/b; cat kept/live; ls kept; cat more/deep/tree/there/file; test ! -e very",
    )
    const [a, b, ...rest] = shown.split("\n")
    expect([0, 1]).toContain(Number(a) - Number(b))
    expect(rest).toEqual(["live", "live", "deep", ""])
  })

  it("is kept by its pin alone, and collected without it", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await layers.put(shop, null)
    const { sandbox, running } = await runningSandbox(layers, "echo one > f")
    const { layer, pin } = await snapshotOne(layers, shop, {
      sandbox,
      reason: "before the upgrade",
      ...freezerOf(running.pid),
    })
    expect((await layers.list()).pins).toMatchObject([
      { id: pin, layer, reason: "before the upgrade" },
    ])
    expect(await layers.collect()).toEqual({ layers: [], tops: [] })
    await layers.unpin(pin)
    expect(await layers.collect()).toEqual({ layers: [layer], tops: [] })
  })

  it("shows the same files as its stack", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await makeScenario(layers, shop)
    const { sandbox, top, running } = await runningSandbox(
      layers,
      "rm -r kept; mv gone gone2; mkfifo p; echo n > n",
    )
    const { layer } = await snapshotOne(layers, shop, {
      sandbox,
      reason: "test",
      ...freezerOf(running.pid),
    })
    await running.end()
    await layers.releaseTop(top, sandbox)
    await layers.put(fork, layer)
    expect(await view(layers, fork)).toBe(await view(layers, shop))
  })

  it("thaws the sandbox and leaves nothing when the freeze fails", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await layers.put(shop, null)
    const { sandbox, running } = await runningSandbox(layers, "echo one > f")
    let frozen = false
    const failing = {
      freeze: async () => {
        frozen = true
        throw new Error("no such cgroup")
      },
      thaw: async () => {
        frozen = false
      },
    }
    await expect(
      snapshotOne(layers, shop, { sandbox, reason: "test", ...failing }),
    ).rejects.toMatchObject({ code: "layers.io", details: { said: "no such cgroup" } })
    expect(frozen).toBe(false)
    expect(await layers.verify()).toMatchObject({ repairs: [], problems: [] })
    await running.end()
  })

  it("thaws the sandbox when the copy stalls while it stands still", async () => {
    const events: string[] = []
    const untilThawed = Promise.withResolvers<void>()
    const root = makeRootOnDisk()
    const layers = await openLayers({
      root,
      idBase: ID_BASE,
      at: (step) => (step === "snapshot.frozen" ? untilThawed.promise : undefined),
    })
    await layers.put(shop, null)
    const { sandbox, running } = await runningSandbox(layers, "echo one > f")
    const recorded = {
      freeze: async () => void events.push("frozen"),
      thaw: async () => void events.push("thawed"),
      frozenStallMs: 5,
    }
    const taking = snapshotOne(layers, shop, { sandbox, reason: "test", ...recorded })
    setTimeout(() => untilThawed.resolve(), 50)
    await expect(taking).rejects.toMatchObject({
      code: "deadline.exceeded",
      details: { sandbox },
    })
    expect(events).toEqual(["frozen", "thawed"])
    await running.end()
    expect(await layers.verify({ isAlive: () => false })).toMatchObject({
      problems: [],
      perhapsFrozen: [],
    })
  })

  it("thaws the sandbox at the deadline of a freeze that does not end, and again when it ends", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await layers.put(shop, null)
    const { sandbox, running } = await runningSandbox(layers, "echo one > f")
    const frozen = Promise.withResolvers<void>()
    const thawed = Promise.withResolvers<void>()
    let thaws = 0
    const late = {
      freeze: () => frozen.promise,
      thaw: async () => {
        thaws += 1
        if (thaws === 2) thawed.resolve()
      },
      frozenStallMs: 5,
    }
    await expect(
      snapshotOne(layers, shop, { sandbox, reason: "test", ...late }),
    ).rejects.toMatchObject({ code: "deadline.exceeded" })
    expect(thaws).toBe(1)
    frozen.resolve()
    await thawed.promise
    await running.end()
  })

  it("tries again to thaw the sandbox, and fails with layers.thaw_failed when it cannot", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await layers.put(shop, null)
    const { sandbox, running } = await runningSandbox(layers, "echo one > f")
    let attempts = 0
    const thawsAt = (attempt: number) => ({
      freeze: async () => {},
      thaw: async () => {
        attempts += 1
        if (attempts < attempt) throw new Error("busy")
      },
    })
    await snapshotOne(layers, shop, { sandbox, reason: "test", ...thawsAt(2) })
    attempts = 0
    await expect(
      snapshotOne(layers, shop, { sandbox, reason: "test", ...thawsAt(100) }),
    ).rejects.toMatchObject({ code: "layers.thaw_failed", details: { sandbox } })
    await running.end()
  })

  it("is refused for a sandbox that has not claimed the top", async () => {
    const layers = await openForTest(makeRootOnDisk())
    await layers.put(shop, null)
    await layers.ensureTop(shop)
    const still = { freeze: async () => {}, thaw: async () => {} }
    await expect(
      snapshotOne(layers, shop, { sandbox: newId.sandbox(), reason: "test", ...still }),
    ).rejects.toMatchObject({ code: "layers.top_in_use" })
  })
})
