import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import { type ForkProgress, SANDBOX_HEADER } from "@berth/protocol/sandboxes"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { openStore } from "@berth/server/store/open"
import { sampled } from "@berth/testing/sampled"
import { type AddCase, sampledCases } from "@berth/testing/sampled-cases"
import { withoutWaits } from "@berth/testing/without-waits"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type BackendName, drawnOn, flagsOf } from "../backends.ts"
import { makeRepo } from "../boot/stage.ts"
import { sessionLeases } from "./sessions.ts"
import { setStage } from "./stage.ts"

/** Covers the making of a toolbox, and boots beside other tests. */
const STAGE_DEADLINE_MS = 120_000

const NEVER_REST = "idlePause: 0\nidleStop: 0\n"
/** Between the two times a test has time to look, also on a busy machine. */
const REST_SOON = "idlePause: 1s\nidleStop: 6s\n"
const LONGER_THAN_IDLE_S = 7

export interface LeaseBackend {
  readonly name: BackendName
  /** Freezes a sandbox's processes behind the server's back. */
  readonly freeze: (sandbox: SandboxId) => Promise<void>
}

/** Leases through a server, the same on every backend. */
export const describeLeases = ({ name, freeze }: LeaseBackend): void => {
  let stage: Awaited<ReturnType<typeof setStage>>
  beforeAll(async () => {
    stage = await setStage(NEVER_REST, await flagsOf(name))
    // The first sandbox waits for the toolbox.
    await stage.make("first")
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage.close(), STAGE_DEADLINE_MS)

  describe("in use", () => {
    beforeAll(() => stage.configure(NEVER_REST), STAGE_DEADLINE_MS)

    it("a sandbox that was frozen behind the server's back wakes for the next call", async () => {
      const box = await stage.make("frozen")
      await freeze(box.id)
      await expect.poll(() => stage.phaseOf(box)).toBe("paused")
      expect((await box.commands.run("echo awake")).stdout).toBe("awake\n")
      expect(await stage.phaseOf(box)).toBe("ready")
    })

    it("a fork works on a copy of the files, and leaves the original's alone", async () => {
      const box = await stage.make("origin")
      await box.files.write("kept", "still here\n")
      const { stdout, stderr, status } = await stage.told("fork", "origin", "copy")
      expect({ stderr, status }).toEqual({
        stderr: expect.stringMatching(/^copy is ready; origin stood still for \d+ ms\n$/),
        status: 0,
      })
      const copy = stage.sandbox(stdout.trim())
      expect(await copy.files.readText("kept")).toBe("still here\n")
      await copy.files.write("kept", "changed\n")
      expect(await box.files.readText("kept")).toBe("still here\n")
      expect(await stage.told("fork", "origin", "copy", "--json")).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("workspace.exists"),
      })
    })

    const addFurther = (further: AddCase) => {
      further(
        "[R1.7] a sandbox in use names its user, and is neither stopped nor removed until the use ends",
        async () => {
          const box = await stage.make("used")
          await box.files.write("kept", "still here\n")
          const running = await box.commands.spawn(["cat"], { stdin: true })
          expect((await stage.told("ps")).stdout).toMatch(
            new RegExp(`^${box.id} +used +ready .* used by a running command`, "m"),
          )
          expect((await stage.told("why", "used")).stdout).toMatch(
            new RegExp(
              `^${box.id} of used is ready, and it is used by\\n +ls-\\S+ +a running command`,
            ),
          )
          const refused = {
            status: 1,
            stdout: "",
            stderr: expect.stringMatching(
              new RegExp(`^berth: ${box.id} is used by a running command`),
            ),
          }
          const endings = ["stop", "rm"].map((name) => stage.told(name, box.id.slice(0, 10)))
          expect(await Promise.all(endings)).toMatchObject([refused, refused])

          await running.endInput()
          for await (const piece of running.output) expect(piece).toBe("nothing")
          expect(await stage.told("stop", "used", "--json")).toMatchObject({
            status: 0,
            stdout: `${JSON.stringify({ stopped: [box.id] })}\n`,
          })
          expect((await stage.told("ps")).stdout).toMatch(
            new RegExp(`^${box.id} +used +stopped `, "m"),
          )
          expect((await stage.told("why", box.id)).stdout).toMatch(
            new RegExp(`^${box.id} of used is gone, and nobody uses it\\.\\n\\n.* ago +forget +`),
          )
          expect(await box.files.readText("kept")).toBe("still here\n")
          expect((await stage.told("ps")).stdout).toMatch(/^sb-\S+ +used +ready /m)
        },
      )

      further(
        "[R1.6] `up` waits while a terminal of a stale sandbox is in use, then brings a new sandbox with the same files",
        async () => {
          const box = await stage.make("drained")
          await box.files.write("kept", "still here\n")
          const view = await box.pty.create({ command: ["sh"], cols: 80, rows: 24 })
          const up = stage.startBerth(["up", "--name", "drained", "--network", "none", "--env=A=2"])
          const said = createInterface({ input: up.stderr })[Symbol.asyncIterator]()
          expect((await said.next()).value).toMatch(
            new RegExp(`^waiting: drained waits for ${box.id}, which is used by .*terminal`),
          )
          expect(await stage.phaseOf(box)).toBe("draining")
          expect(stage.log.map((line) => JSON.parse(line))).toContainEqual(
            expect.objectContaining({ level: "warn", op: "sandbox.drain", sandbox: box.id }),
          )

          await view.write("echo still''here; exit\n")
          let shown = ""
          for await (const bytes of view.output) shown += Buffer.from(bytes).toString()
          expect(shown).toContain("stillhere")
          let last = ""
          for await (const line of said) last += `${line}\n`
          expect(withoutWaits(last)).toMatch(/^drained is ready after \d+ ms\n$/)
          const [id] = (await up.stdout.toArray()).map((bytes) => String(bytes).trim())
          expect(id).not.toBe(box.id)
          const next = stage.sandbox(id ?? "")
          expect((await next.commands.run("cat kept; echo $A")).stdout).toBe("still here\n2\n")
        },
      )

      further(
        "[R1.7] a stale sandbox is kept while a command in the background runs, and replaced when the command ends",
        async () => {
          const box = await stage.make("busy")
          const { id } = await box.commands.start("until [ -e go ]; do sleep 0.02; done")
          const user = `command ${id}`
          await expect.poll(() => stage.usersOf(box)).toEqual([user])
          const changed = { A: "2" }
          await expect(stage.create("busy", changed, { deadlineMs: 900 })).rejects.toMatchObject({
            code: "workspace.draining",
            details: { sandbox: box.id, users: [user] },
          })
          const reasons: string[] = []
          const replaced = stage.create("busy", changed, { onWait: (why) => reasons.push(why) })
          await expect
            .poll(() => reasons)
            .toEqual([`busy waits for ${box.id}, which is used by ${user}`])
          for (const options of [[], ["--dry-run"]]) {
            const { stdout, status } = await stage.told("reconcile", "--json", ...options)
            expect({ status, ...JSON.parse(stdout) }).toMatchObject({
              status: 0,
              dryRun: options.length > 0,
              sandboxes: expect.arrayContaining([
                expect.objectContaining({
                  sandbox: box.id,
                  phase: "draining",
                  outcome: "kept",
                  reason: expect.stringContaining(user),
                }),
              ]),
            })
          }
          await box.files.write("go", "")
          const next = await replaced
          expect(next.id).not.toBe(box.id)
          expect(await stage.phaseOf(box)).toBe("gone")
          expect(await next.files.readText("go")).toBe("")
        },
      )

      further("a sandbox that a person holds is not stopped until it is released", async () => {
        const box = await stage.make("held")
        const held = await stage.told("hold", "held", "--for", "1h", "--reason", "a demo")
        expect(held).toMatchObject({
          status: 0,
          stdout: expect.stringMatching(/^ls-\S+\n$/),
          stderr: expect.stringContaining(`${box.id} is held until 2`),
        })
        await expect(box.stop()).rejects.toMatchObject({
          code: "sandbox.in_use",
          details: { users: [expect.stringMatching(/^a hold of .*: a demo$/)] },
        })
        const hold = held.stdout.trim()
        expect(await stage.told("hold", "--release", hold)).toMatchObject({ status: 0 })
        expect(await stage.told("hold", "--release", hold)).toMatchObject({
          status: 1,
          stderr: expect.stringContaining(`there is no hold ${hold}`),
        })
        expect(await stage.told("hold", "held", "--for", "soon")).toMatchObject({ status: 2 })
        expect(await stage.told("hold")).toMatchObject({ status: 2 })
        await box.stop()
      })

      further("a forced stop or removal ends the use of its sandbox, and of no other", async () => {
        const boxes = [await stage.make("forced"), await stage.make("other")] as const
        for (const box of boxes) await box.commands.start(["sleep", "1000"])
        expect(await stage.told("stop", "forced", "--force")).toMatchObject({
          status: 0,
          stderr: "",
        })
        expect(await boxes[0].get()).toMatchObject({ phase: "gone", leases: [] })
        // A refused removal does not keep the others from being made.
        expect(await stage.told("rm", "other", "forced")).toMatchObject({
          status: 1,
          stdout: `${boxes[0].id}\n`,
          stderr: expect.stringContaining("is used by"),
        })
        expect(await stage.told("rm", "other", "--force")).toMatchObject({ status: 0 })
        expect((await stage.told("ps")).stdout).not.toMatch(/forced|other/)
      })

      further(
        "a sandbox is forked with 3,000 new files while it runs, with progress, and a cancelled fork leaves no files",
        async () => {
          const box = await stage.make("large")
          const write =
            "for d in $(seq 50); do mkdir d$d; for f in $(seq 60); do echo $f > d$d/$f; done; done"
          expect(await box.commands.run(["sh", "-c", write])).toMatchObject({ stderr: "" })
          const cancel = new AbortController()
          const given = { signal: cancel.signal, onProgress: () => cancel.abort() }
          await expect(box.fork("cancelled", given)).rejects.toMatchObject({ code: "cancelled" })
          const told: ForkProgress[] = []
          const fork = await box.fork("large-copy", {
            onProgress: (progress) => told.push(progress),
          })
          expect(told.map(({ stage }) => stage)).toContain("copying")
          expect(fork.stoodStillMs).toBeGreaterThan(0)
          const count = await fork.commands.run(["sh", "-c", "find . -type f | wc -l"])
          expect(count.stdout).toBe("3000\n")
          expect((await stage.told("ps")).stdout).not.toContain("cancelled")
          const incoming = join(stage.dataDir, "layers/incoming")
          await expect.poll(() => readdir(incoming), { timeout: 10_000 }).toEqual([])
          await fork.remove()
        },
      )
    }
    sampledCases("further cases of leases", 1, addFurther, drawnOn(name))
  })

  describe("after a crash", () => {
    let busy: Sandbox
    let lost: Sandbox
    let command: string
    beforeAll(async () => {
      await stage.configure(NEVER_REST)
      busy = await stage.make("crashed")
      lost = await stage.make("lost")
      await lost.files.write("kept", "still here\n")
      command = (await busy.commands.start(["sleep", "1000"])).id
      await stage.kill()
      await forget(lost, "lost")
      await stage.restart()
      busy = stage.sandbox(busy.id)
      lost = stage.sandbox(lost.id)
    }, STAGE_DEADLINE_MS)

    /** Makes the store forget a sandbox and its workspace. */
    const forget = async ({ id }: Sandbox, name: string): Promise<void> => {
      const { db, close } = await openStore({ dataDir: stage.dataDir })
      await db.deleteFrom("decisions").where("sandbox", "=", id).execute()
      await db.deleteFrom("sandboxes").where("id", "=", id).execute()
      await db.deleteFrom("workspaces").where("slug", "=", Slug.parse(name)).execute()
      await close()
    }

    it("[R1.9] a sandbox is adopted with the command that runs in it, which keeps it in use", async () => {
      await expect(busy.stop()).rejects.toMatchObject({ code: "sandbox.in_use" })
      expect(await stage.usersOf(busy)).toEqual([`command ${command}`])
      expect(await busy.commands.kill(command)).toMatchObject({ exit: { signal: "SIGTERM" } })
      await expect.poll(() => stage.usersOf(busy)).toEqual([])
      await busy.stop()
    })

    it("[R1.10] a quarantined sandbox is given back with its workspace, which the store had lost, too", async () => {
      await expect
        .poll(async () => (await lost.why()).decisions[0]?.reason)
        .toMatch(/^it is quarantined/)
      expect((await stage.told("ps")).stdout).toMatch(
        new RegExp(`^${lost.id} +lost +quarantined `, "m"),
      )
      await expect(lost.commands.run("true")).rejects.toMatchObject({ code: "sandbox.ended" })
      expect(await stage.told("recover", "lost")).toMatchObject({
        status: 0,
        stdout: `${lost.id}\n`,
      })
      expect(await stage.told("recover", lost.id, "--json")).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("sandbox.not_quarantined"),
      })
      // A call has seconds, and the boot of the next sandbox may take longer beside other tests.
      await stage.make("lost")
      expect(await lost.files.readText("kept")).toBe("still here\n")
    })
  })

  const littlePatience = () => {
    let paused: Sandbox
    let unused: Sandbox
    let held: Sandbox
    let slow: Promise<unknown>
    beforeAll(async () => {
      await stage.configure(REST_SOON)
      const script = `#!/bin/sh\nsleep ${LONGER_THAN_IDLE_S}\n`
      const repo = makeRepo(`${stage.base}/slow`, { ".berth/start.sh": script })
      slow = stage.told("up", repo, "--network", "none")
      const { make } = stage
      ;[paused, unused, held] = await Promise.all([make("paused"), make("unused"), make("kept")])
      await held.hold({ holder: "somebody" })
      await unused.files.write("kept", "still here\n")
    }, STAGE_DEADLINE_MS)

    it("an unused sandbox is paused, and the same one wakes for the next use", async () => {
      await expect.poll(() => stage.phaseOf(paused)).toBe("paused")
      expect((await paused.commands.run("echo awake")).stdout).toBe("awake\n")
      expect(await stage.phaseOf(paused)).toBe("ready")
    })

    it("an unused sandbox is stopped, and another one starts with its files for the next use", async () => {
      await expect.poll(() => stage.phaseOf(unused)).toBe("gone")
      expect((await unused.why()).decisions).toContainEqual(
        expect.objectContaining({ action: "stop", reason: "nobody has used it for 6 s" }),
      )
      const { url, token } = stage.access()
      const reply = await fetch(`${url}/v1/sandboxes/${unused.id}/files/content?path=kept`, {
        headers: { authorization: `Bearer ${token}` },
      })
      expect(await reply.text()).toBe("still here\n")
      expect(reply.headers.get(SANDBOX_HEADER)).toMatch(/^sb-/)
      expect(reply.headers.get(SANDBOX_HEADER)).not.toBe(unused.id)
    })

    it("a held sandbox is neither paused nor stopped", async () => {
      await expect.poll(() => stage.phaseOf(unused)).toBe("gone")
      expect(await stage.phaseOf(held)).toBe("ready")
      expect(await stage.usersOf(held)).toEqual(["a hold of somebody"])
    })

    it("a sandbox may boot for longer than it may be idle", async () => {
      expect(await slow).toMatchObject({
        status: 0,
        stderr: expect.stringMatching(
          /^waiting: the boot is at .*start-hook.*\n(waiting: .*\n)*slow is ready/m,
        ),
      })
    })
  }

  const groups = [
    ...sessionLeases(() => stage),
    { what: "with short idle times", cases: littlePatience },
  ]
  for (const { what, cases } of sampled("groups of leases", groups, 2, drawnOn(name)))
    describe(what, cases)
}
