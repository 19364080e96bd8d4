/** A terminal in the browser: `PORT=7681 node web-terminal.cjs ASSETS`, in the directory that shells start in. */
import { accessSync, constants } from "node:fs"
import { webTerminal } from "./serve.ts"

const [assets] = process.argv.slice(2)
const port = Number(process.env.PORT)
if (assets === undefined || !Number.isInteger(port) || port < 0 || port > 65_535) {
  console.error("usage: PORT=7681 web-terminal ASSETS")
  process.exit(2)
}

const canRun = (path: string | undefined): path is string => {
  try {
    accessSync(path ?? "", constants.X_OK)
    return true
  } catch {
    return false
  }
}
const command = [process.env.SHELL, "/bin/bash"].find(canRun) ?? "/bin/sh"
/** The port is ours: what is started in the shell is to choose its own. */
const { PORT: _, ...env } = process.env as Record<string, string>
const shell = { command, cwd: process.cwd(), env: { ...env, COLORTERM: "truecolor" } }

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
