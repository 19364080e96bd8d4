import { join } from "node:path"
import { needPackage } from "./packages.ts"
import type { FindInput } from "./source.ts"

/**
 * The files that the page of the terminal in the browser loads. The program that serves it comes with the supervisor.
 */
export const webTerminal: FindInput = async ({ from }) => {
  const { version, directory } = await needPackage("web-terminal", "@xterm/xterm", from)
  const main = "web-terminal/xterm.js"
  return {
    name: "web-terminal",
    version,
    main,
    parts: [
      { kind: "file", from: join(directory, "lib/xterm.js"), to: main },
      { kind: "file", from: join(directory, "css/xterm.css"), to: "web-terminal/xterm.css" },
    ],
  }
}
