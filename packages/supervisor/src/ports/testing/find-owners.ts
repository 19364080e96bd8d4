/** Run by a test: `find-owners.ts INODE UID` prints the process that has the socket open. */
import { systemClock } from "../../processes/clock.ts"
import { findOwners } from "../owners.ts"

const [inode = "", uid] = process.argv.slice(2)
const user = { uid: Number(uid), gid: Number(uid) }
const { signal } = new AbortController()
const found = await findOwners(new Set([inode, "1"]), { clock: systemClock, user, signal })
console.log(JSON.stringify([...found]))
