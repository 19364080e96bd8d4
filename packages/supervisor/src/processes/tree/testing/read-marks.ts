import { readMarks } from "../mark.ts"

/** Reads the marks of these processes as often at once as the first argument says, and prints how many each look found. */
const [, , looks = "", ...pids] = process.argv
const all = pids.map(Number)
const reads = await Promise.all(
  Array.from({ length: Number(looks) }, () => readMarks(all, undefined)),
)
console.log(JSON.stringify([...new Set(reads.map(({ marks }) => marks.size))]))
