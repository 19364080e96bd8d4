import { readFileSync, writeFileSync } from "node:fs"
import type { SandboxId } from "@berth/protocol/ids"
import { processesOf } from "../boot/stage.ts"

/** Freezes a sandbox's processes behind the server's back, under cgroup v1 or v2. */
export const freeze = (sandbox: SandboxId): void => {
  const [first] = processesOf(sandbox)
  if (first === undefined) throw new Error(`nothing runs in ${sandbox}`)
  const groups = readFileSync(`/proc/${first.pid}/cgroup`, "utf8").split("\n")
  const ofSandbox = new RegExp(`^.*${sandbox}[^/]*`)
  const pathOf = (form: RegExp) =>
    groups
      .map((line) => form.exec(line)?.[1])
      .map((path) => path && ofSandbox.exec(path)?.[0])
      .find((path) => path !== undefined)
  const v1 = pathOf(/^\d+:freezer:(.*)$/)
  if (v1 !== undefined) writeFileSync(`/sys/fs/cgroup/freezer${v1}/freezer.state`, "FROZEN")
  else writeFileSync(`/sys/fs/cgroup${pathOf(/^0::(.*)$/)}/cgroup.freeze`, "1")
}
