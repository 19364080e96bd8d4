import { parseArgs } from "node:util"

export interface Options {
  /** Names of the benchmarks to run; empty: all. */
  readonly only: readonly string[]
  readonly json: boolean
  /** Makes the command fail if a bound does not hold. */
  readonly strict: boolean
  readonly help: boolean
}

export const USAGE = `npm run bench -- [--only NAME]… [--json] [--strict]

  --only NAME  run this benchmark; may be given several times
  --json       print one JSON array on stdout and nothing else (npm itself prints its banner there
               unless it is called as \`npm run --silent\`)
  --strict     end with status 1 when a bound does not hold`

export function parseOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string", multiple: true, default: [] },
      json: { type: "boolean", default: false },
      strict: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  })
  return values
}
