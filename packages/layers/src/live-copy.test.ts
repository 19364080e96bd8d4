import { execFileSync } from "node:child_process"
import { lstatSync } from "node:fs"
import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { expect, it } from "vitest"
import { layoutAt } from "./io/layout.ts"
import { CLOCK_SLACK_MS, type CopyProgress } from "./live-copy.ts"
import { openLayers } from "./open.ts"
import { AGENT, ID_BASE } from "./testing/ids.ts"
import { key } from "./testing/key.ts"
import { keepMounted } from "./testing/mount.ts"
import { snapshotOne } from "./testing/snapshot-one.ts"
import { makeRootOnDisk, workAndFreeze } from "./testing/store.ts"

const shop = key("shop")
const BUDGET_MS = 60_000

/** The layer below the top: marks in the top note what is removed and moved of it. */
const LOWER = "mkdir -p low/a low/b low/c; echo a > low/a/f; echo b > low/b/f; echo c > low/c/f"

/** More files than are copied while a sandbox stands still. */
const MANY = `
mkdir trap; echo mine > trap/passwd
for d in $(seq 40); do mkdir many$d; for f in $(seq 40); do echo $d $f > many$d/f$f; done; done
mkdir -p left/deep right/deep; echo 1 > left/deep/same; echo 2 > right/deep/same
touch -d 2001-02-03T04:05:06.789 left/deep/same right/deep/same
mkdir -p linked/in; echo l > linked/one; ln linked/one linked/in/two; echo m > linked/three
head -c 2000000 /dev/urandom > large; truncate -s 3000000 holes
ln -s many1 turns-to-directory; mkdir turns-to-link; echo x > turns-to-link/x
mkfifo pipe; echo old > back-dated; touch -d 2020-01-01 back-dated
`

/** Changes that can happen to files between the rounds of a copy. */
const CHANGES = `
rm -r many1; rm many2/f1; mv many3 moved; echo new > many4/new; echo longer > many5/f5
mv left middle; mv right left; mv middle right
mv linked/in linked/out; ln linked/three linked/out/four
echo changed >> large; echo end >> holes; truncate -s 5000000 holes
rm turns-to-directory; mkdir turns-to-directory; echo in > turns-to-directory/in
rm -r turns-to-link; ln -s /etc turns-to-link
chmod 2770 many6; chown 1234:1234 many7/f7; chmod 4755 many7/f8
rm pipe; echo now > pipe; mkfifo many8/pipe
printf new > back-dated; touch -d 2020-01-01 back-dated
rm -r low/a; mkdir low/a; echo again > low/a/g; mv low/b low/moved; rm low/c/f
touch "$(printf 'caf\\351 new\\nline')" ./-dash
`

/** Runs a script in the sandbox's files, as its root would. */
const inside = (pid: number, script: string): void =>
  void execFileSync("nsenter", ["-t", String(pid), "-m", "sh", "-ec", `cd /mnt\n${script}`])

/** Everything of a tree that a layer keeps: names, kinds, contents, links, owners, modes, times and attributes. */
const digestOf = (tree: string): string => {
  // Whiteouts have another name in the overlay's work directory.
  const list = `cd "$0"; find . -printf '%P %y %m %U %G %T@ %l\\n' -type f -printf '%P has %n names\\n' | LC_ALL=C sort`
  const tar = `tar -c --sort=name --format=pax --pax-option=delete=atime,delete=ctime --numeric-owner --xattrs --xattrs-include='*' . 2>/dev/null | sha256sum`
  return execFileSync("sh", ["-c", `${list}; ${tar}`, tree], { encoding: "utf8" })
}

const stage = async (at: (step: string) => void = () => {}) => {
  const root = makeRootOnDisk()
  const layers = await openLayers({ root, idBase: ID_BASE, at })
  await layers.put(shop, null)
  await workAndFreeze(layers, shop, LOWER)
  await layers.ensureTop(shop, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(shop, sandbox)
  const running = await keepMounted(mount, MANY)
  const { tree } = layoutAt(root).top(top)
  // Files that were written just before a round are copied again by the next one.
  const { ctimeMs } = lstatSync(join(tree, "back-dated"))
  await expect.poll(() => Date.now() - ctimeMs).toBeGreaterThan(CLOCK_SLACK_MS)
  return { root, layers, sandbox, running, tree }
}

requires("root").describe("the copy of a running sandbox's files", () => {
  it(
    "equals them as they are when it stands still, though they changed while they were copied",
    async () => {
      const { root, layers, sandbox, running, tree } = await stage()
      const told: CopyProgress[] = []
      const { layer, frozenMs } = await snapshotOne(layers, shop, {
        sandbox,
        reason: "test",
        freeze: async () => inside(running.pid, CHANGES),
        thaw: async () => {},
        onProgress: (progress) => {
          // While the first round copies.
          if (progress.stage === "copying" && told.every(({ of }) => of === 0))
            inside(
              running.pid,
              "rm -r many30; mv many31 many30; echo early > many32/f1; rm many33/f2",
            )
          told.push(progress)
        },
      })
      expect(digestOf(layoutAt(root).layer(layer).tree)).toBe(digestOf(tree))
      expect(told.filter(({ stage }) => stage === "copying").at(-1)?.files).toBeGreaterThan(1_600)
      const still = told.filter(({ stage }) => stage === "frozen").at(-1)?.of ?? 0
      expect(still).toBeGreaterThan(50)
      expect(still).toBeLessThan(300)
      expect(frozenMs).toBeGreaterThan(0)
      expect((await stat(join(layoutAt(root).layer(layer).tree, "holes"))).blocks).toBeLessThan(100)
      expect(await readdir(join(layoutAt(root).layer(layer).directory))).toEqual([
        "layer.json",
        "tree",
      ])
      await running.end()
    },
    BUDGET_MS,
  )

  it(
    "follows no link that takes the place of a directory while it is copied",
    async () => {
      let swap = () => {}
      let ofHost = "not looked for"
      const { root, layers, sandbox, running, tree } = await stage((step) => {
        if (step === "snapshot.listed") swap()
      })
      // Once its file is listed and not yet read, the directory becomes a link to a place where the host has such a file.
      swap = () => inside(running.pid, "mv trap away; ln -s /etc trap")
      const { layer } = await snapshotOne(layers, shop, {
        sandbox,
        reason: "test",
        freeze: async () => {
          const { incoming } = layoutAt(root)
          ofHost = String(execFileSync("sh", ["-c", 'grep -rls root:x: "$0" || :', incoming]))
          inside(running.pid, "rm trap; mv away trap")
        },
        thaw: async () => {},
      })
      expect(ofHost).toBe("")
      const copied = layoutAt(root).layer(layer).tree
      expect(await readFile(join(copied, "trap/passwd"), "utf8")).toBe("mine\n")
      expect(digestOf(copied)).toBe(digestOf(tree))
      await running.end()
    },
    BUDGET_MS,
  )

  it(
    "leaves nothing when it is cancelled, and does not freeze the sandbox",
    async () => {
      const { root, layers, sandbox, running } = await stage()
      const cancel = new AbortController()
      const events: string[] = []
      const taking = layers.snapshot([shop], {
        sandbox,
        reason: "test",
        signal: cancel.signal,
        freeze: async () => void events.push("frozen"),
        thaw: async () => void events.push("thawed"),
        onProgress: () => cancel.abort(new Error("enough")),
      })
      await expect(taking).rejects.toThrow("enough")
      expect(events).toEqual([])
      await layers.collect()
      const { incoming, trash } = layoutAt(root)
      expect([await readdir(incoming), await readdir(trash)]).toEqual([[], []])
      expect(await layers.list()).toMatchObject({ pins: [] })
      await running.end()
    },
    BUDGET_MS,
  )
})
