import { requires } from "@berth/testing/requires"
import { expect } from "vitest"
import { hearsInspectorSignal, idsOf, OUT_OF_REACH, reach } from "../processes/testing/reach.ts"
import type { User } from "../processes/user.ts"
import { SOMEONE, serveFiles, workerPid } from "./testing/files.ts"

requires("root").describe("the files worker", () => {
  requires("root").it(
    "cannot be read or changed by the user that it runs as, and goes on after their signal",
    async () => {
      const user = SOMEONE as User
      const { call, workspace } = await serveFiles()
      expect((await call("GET", "/files/list", { path: "." })).status).toBe(200)
      const pid = workerPid(workspace) as number
      expect(idsOf(pid)).toEqual({
        uids: [0, 0, 0, 0].map(() => user.uid).join("\t"),
        gids: [0, 0, 0, 0].map(() => user.gid).join("\t"),
        groups: "",
        rights: "0000000000000000",
      })
      expect(reach(pid, user)).toEqual(OUT_OF_REACH)
      expect(hearsInspectorSignal(pid)).toBe(false)
      expect((await call("GET", "/files/list", { path: "." })).status).toBe(200)
      expect(workerPid(workspace)).toBe(pid)
    },
  )
})
