/**
 * A terminal in the browser: `PORT=7681 node web-terminal.cjs ASSETS DIRECTORY [USER]`. Shells start in the directory,
 * as the user whose ids are given as `{"uid":1000,"gid":1000}`. Their environment is carried in this program's own.
 */
import { accessSync, constants } from "node:fs"
import { carriedEnvironment } from "../processes/carried-environment.ts"
import { becomeUser } from "../processes/own-program.ts"
import { webTerminal } from "./serve.ts"

const [assets, cwd, user] = process.argv.slice(2)
const port = Number(process.env.PORT)
if (assets === undefined || cwd === undefined || !(port >= 0 && port <= 65_535)) {
  console.error("usage: PORT=7681 web-terminal ASSETS DIRECTORY [USER]")
  process.exit(2)
}
// Called before it listens or looks at anything of the user's, as it starts with the supervisor's rights.
if (user !== undefined) becomeUser(JSON.parse(user))

const canRun = (path: string | undefined): path is string => {
  try {
    accessSync(path ?? "", constants.X_OK)
    return true
  } catch {
    return false
  }
}
const env = carriedEnvironment(process.env)
const command = [env.SHELL, "/bin/bash"].find(canRun) ?? "/bin/sh"
const shell = { command, cwd, env: { ...env, COLORTERM: "truecolor" } }

const terminal = webTerminal({ assets, shell })
const end = () => void terminal.close()
process.once("SIGTERM", end)
process.once("SIGINT", end)
terminal.server.on("error", (error) => {
  console.error(error.message)
  process.exit(1)
})
terminal.server.listen(port, "127.0.0.1", () => {
  const address = terminal.server.address()
  const actual = typeof address === "object" && address !== null ? address.port : port
  console.log(`listening on http://127.0.0.1:${actual}/`)
})
