/** Places agent files in a process of its own, for a test to kill. */
import { symlinkSync } from "node:fs"
import { systemClock } from "../../processes/clock.ts"
import { placeAgentFiles } from "../place.ts"
import { FILES, NO_LINKS, USER } from "./home.ts"

const [toolbox = "", home = "", how = "", path = ""] = process.argv.slice(2)
const makeLink = how === "copy" ? NO_LINKS.makeLink : symlinkSync
await placeAgentFiles(
  FILES,
  { toolbox, home },
  { clock: systemClock, user: USER, path, makeLink },
  new AbortController().signal,
)
