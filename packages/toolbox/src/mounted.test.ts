import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { requires } from "@berth/testing/requires"
import { expect, onTestFinished } from "vitest"
import { mountedToolboxes } from "./mounted.ts"

requires("root").it("lists a toolbox as mounted while another mount namespace has it", async () => {
  const directory = await mkdtemp(join(tmpdir(), "berth-mounted-"))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const id = `tb-${crypto.randomUUID().replaceAll("-", "").padEnd(40, "0")}`
  await mkdir(join(directory, id))
  await mkdir(join(directory, "target"))
  expect(await mountedToolboxes()).not.toContain(id)

  const script = `mount --bind ${id} target && echo mounted && read -r _`
  const sandbox = spawn("unshare", ["--mount", "sh", "-c", script], { cwd: directory })
  await once(sandbox.stdout, "data")
  expect(await mountedToolboxes()).toContain(id)

  sandbox.stdin.end()
  await once(sandbox, "close")
  expect(await mountedToolboxes()).not.toContain(id)
})
