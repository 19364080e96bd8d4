import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { AGENT_ID, idBase } from "@berth/backends/embedded/ids/range"
import { openHarness } from "@berth/backends/embedded/testing/harness"
import { specFor } from "@berth/backends/embedded/testing/spec"
import { openLayers } from "@berth/layers/open"
import { snapshotOne } from "@berth/layers/testing/snapshot-one"
import { view } from "@berth/layers/testing/store"
import { type SandboxId, Slug } from "@berth/protocol/ids"
import type { Overlay } from "@berth/protocol/sandbox"
import { requires } from "@berth/testing/requires"
import { expect, it, onTestFinished } from "vitest"

const workspace = Slug.parse("shop")
const FILES = Slug.parse("workspace")
const HOME = Slug.parse("home")

/** A backend and a store of layers, put together as a server does. */
const open = async () => {
  const harness = await openHarness()
  onTestFinished(() => harness.close())
  const root = await mkdtemp(join(tmpdir(), "berth-stacks-"))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const layers = await openLayers({ root, idBase: idBase(harness.installation) })
  const empty = await harness.census()
  for (const name of [FILES, HOME]) await layers.put({ workspace, name }, null)
  const agent = { uid: AGENT_ID, gid: AGENT_ID, mode: 0o755 }

  const claim = async (stack: Slug, sandbox: SandboxId): Promise<Overlay> => {
    const key = { workspace, name: stack }
    await layers.ensureTop(key, agent)
    const { mount } = await layers.claimTop(key, sandbox)
    const { cwd, lower, upper, work, options } = mount
    return { stack, base: cwd, lower: [...lower], upper, work, options: [...options] }
  }

  /** Runs a script in a new sandbox on the workspace's stacks, to its end. */
  const runOnStacks = async (script: string, during?: (sandbox: SandboxId) => Promise<void>) => {
    const spec = specFor(harness.installation, {
      command: ["/bin/sh", "-ec", script],
      mounts: [
        { kind: "stack", stack: FILES, target: "/workspace" },
        { kind: "stack", stack: HOME, target: "/home" },
      ],
    })
    const { sandbox } = spec.identity
    const overlays = [await claim(FILES, sandbox), await claim(HOME, sandbox)]
    const stop = new AbortController()
    const events = harness.backend.watch(stop.signal)
    await harness.backend.create({ ...spec, overlays })
    await harness.backend.start(sandbox)
    await during?.(sandbox)
    for await (const event of events) if (event.kind === "exited") break
    stop.abort()
    const output = await harness.backend.logs(sandbox)
    await harness.backend.remove(sandbox)
    for (const name of [FILES, HOME]) {
      const { top } = await layers.ensureTop({ workspace, name })
      await layers.releaseTop(top, sandbox)
    }
    return output
  }
  return { harness, layers, runOnStacks, empty }
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "an embedded sandbox on stacks of layers",
  () => {
    it("[R3.5] finds the files that the sandbox before it left, frozen or not", async () => {
      const { harness, layers, runOnStacks, empty } = await open()
      await runOnStacks(
        "mkdir -p src/deep; echo one > src/deep/a; echo two > b; echo me > /home/note",
      )
      expect(await runOnStacks("cat src/deep/a b /home/note")).toBe("one\ntwo\nme\n")

      await layers.freeze({ workspace, name: FILES })
      await runOnStacks("mv src source; rm b; mkdir src; echo new > src/fresh")
      await layers.freeze({ workspace, name: FILES })
      expect(await runOnStacks("find . -type f | sort; cat source/deep/a")).toBe(
        "./source/deep/a\n./src/fresh\none\n",
      )
      expect(await harness.census()).toEqual(empty)
    })

    it("keeps the owners of files for the next sandbox and for a fork, frozen or not", async () => {
      const { harness, layers, runOnStacks } = await open()
      const show = "stat -c '%n %u:%g %a' . kept moved/by-root renamed copied"
      await runOnStacks(
        `umask 077; echo 1 > kept; chown 1000:1000 kept; mkdir dir; echo 2 > dir/by-root; chown 33:44 dir
         echo 3 > renamed; echo 4 > copied; chown 1000:33 renamed copied`,
      )
      await layers.freeze({ workspace, name: FILES })
      await runOnStacks(
        "mv dir moved; mv renamed r; mv r renamed; echo more >> copied; chown 7 moved",
      )
      const owners = await runOnStacks(show)
      expect(owners).toBe(
        ". 1000:1000 755\nkept 1000:1000 600\nmoved/by-root 0:0 600\nrenamed 1000:33 600\ncopied 1000:33 600\n",
      )
      const { layer } = await layers.freeze({ workspace, name: FILES })
      expect(await runOnStacks(show)).toBe(owners)
      const fork = { workspace: Slug.parse("fork"), name: FILES }
      await layers.put(fork, layer)
      const onDisk = await view(layers, fork, idBase(harness.installation))
      expect(onDisk).toMatch(/^kept f 600 1000:1000 /m)
      expect(onDisk).toMatch(/^moved d 700 7:44 /m)
      expect(onDisk).toMatch(/^moved\/by-root f 600 0:0 /m)
    })

    it("has its top to itself, and nothing of it is mounted on the host", async () => {
      const { harness, layers, runOnStacks, empty } = await open()
      await runOnStacks(
        "echo up; while [ ! -e done ]; do sleep 0.02; done; cat done",
        async (sandbox) => {
          await expect.poll(() => harness.backend.logs(sandbox)).toContain("up")
          expect((await harness.census()).mounts).toBe(empty.mounts)
          await expect(layers.freeze({ workspace, name: FILES })).rejects.toMatchObject({
            code: "layers.top_in_use",
          })
          const { top } = await layers.ensureTop({ workspace, name: FILES })
          await expect(layers.releaseTop(top, sandbox)).rejects.toMatchObject({
            code: "layers.top_in_use",
          })
          const snapshot = await snapshotOne(
            layers,
            { workspace, name: FILES },
            {
              sandbox,
              freeze: () => harness.backend.pause(sandbox),
              thaw: () => harness.backend.resume(sandbox),
              reason: "a test",
            },
          )
          expect(snapshot.layer).toMatch(/^ly-/)
          await harness.backend.stop(sandbox, { graceMs: 0 })
        },
      )
    })

    it("is refused without an overlay for its stack, with nothing left", async () => {
      const { harness, empty } = await open()
      const spec = specFor(harness.installation, {
        mounts: [{ kind: "stack", stack: FILES, target: "/workspace" }],
      })
      await expect(harness.backend.create(spec)).rejects.toMatchObject({
        code: "input.invalid",
        details: { path: "overlays", missing: FILES },
      })
      expect(await harness.census()).toEqual(empty)
      expect(await readdir(join(harness.directory, "sandboxes"))).toEqual([])
    })
  },
)
