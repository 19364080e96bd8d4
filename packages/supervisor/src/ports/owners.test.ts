import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { requires } from "@berth/testing/requires"
import { expect, onTestFinished } from "vitest"

const UID = 1234
const FIND = fileURLToPath(new URL("./testing/find-owners.ts", import.meta.url))
const RIGHTS = "-sys_ptrace,-perfmon,-sys_admin"
const LISTEN = `require("net").createServer().listen(0, "127.0.0.1", function () {
  console.log(require("fs").readlinkSync("/proc/self/fd/" + this._handle.fd))
})`

requires("root").describe("the process that listens", () => {
  const both = [
    ["with the supervisor's own rights", []],
    [
      "with the user's rights, where the supervisor may not trace",
      [`--inh-caps=${RIGHTS}`, `--bounding-set=${RIGHTS}`],
    ],
  ] as const
  for (const [how, limits] of both)
    requires("root").it(`is found ${how}`, async () => {
      const program = spawn(process.execPath, ["-e", LISTEN], {
        uid: UID,
        gid: UID,
        env: {},
        cwd: "/",
        stdio: ["ignore", "pipe", "inherit"],
      })
      onTestFinished(() => void program.kill("SIGKILL"))
      const [line] = await once(createInterface({ input: program.stdout }), "line")
      const inode = /\d+/.exec(line)?.[0] ?? ""
      const find = [process.execPath, "--conditions=source", FIND, inode, String(UID)]
      const { stdout } = await promisify(execFile)("setpriv", [...limits, "--", ...find])
      expect(JSON.parse(stdout)).toEqual([[inode, { pid: program.pid, name: expect.any(String) }]])
    })
})
