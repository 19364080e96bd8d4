import { mkdir, readFile, rmdir } from "node:fs/promises"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { requires } from "@berth/testing/requires"
import { withReason } from "@berth/testing/skip-reason"
import { describe, expect, it, onTestFinished } from "vitest"
import type { Cgroup } from "./cgroups.ts"
import { writeValue } from "./files.ts"
import { handDown, handOn } from "./hand-on.ts"
import { HOST } from "./testing/host.ts"
import { shellInside } from "./testing/process.ts"

const root = HOST.v2 ?? ""
const offered = root && (await readFile(join(root, "cgroup.controllers"), "utf8")).trim()
/** One controller of the v2 hierarchy. The rules are the same for all. */
const [controller = ""] = offered.split(" ").slice(-1)

const words = async (directory: string, file: string) =>
  (await readFile(join(directory, file), "utf8")).trim().split(" ")

/** A cgroup at the top, which has the controller, and one in it, which does not yet. */
const makeBaseAndGroup = async () => {
  const before = await words(root, "cgroup.subtree_control")
  const base = join(root, `berth-test-${newId.session()}`)
  const group = join(base, "group")
  await mkdir(group, { recursive: true })
  onTestFinished(async () => {
    await rmdir(group)
    await rmdir(base)
    if (!before.includes(controller)) {
      await writeValue(join(root, "cgroup.subtree_control"), `-${controller}`)
    }
  })
  await handOn(root, [controller])
  return { base, group }
}

const WITHOUT_V2 = "this host's v2 hierarchy offers no controller"
const onV2 =
  controller === ""
    ? (title: string, body: () => void) => describe.skip(withReason(title, WITHOUT_V2), body)
    : requires("root").describe

onV2("handing controllers on in a real v2 hierarchy", () => {
  it("reaches the group's children through a base that had not handed them on", async () => {
    const { base, group } = await makeBaseAndGroup()
    expect(await words(group, "cgroup.controllers")).not.toContain(controller)
    await handDown({ base, group }, [controller])
    expect(await words(group, "cgroup.controllers")).toContain(controller)
    expect(await words(group, "cgroup.subtree_control")).toContain(controller)
    await handDown({ base, group }, [controller])
  })

  it("fails in a base that holds processes", async () => {
    const { base, group } = await makeBaseAndGroup()
    const joinFiles = [join(base, "cgroup.procs")]
    const { child, ended } = await shellInside(
      { joinFiles } as unknown as Cgroup,
      "exec sleep 1000",
    )
    await expect(handDown({ base, group }, [controller])).rejects.toMatchObject({ code: "EBUSY" })
    child.kill("SIGKILL")
    await ended
  })

  it("writes nothing when there is nothing to hand on", async () => {
    await expect(handOn("/nowhere", [])).resolves.toBeUndefined()
  })
})
