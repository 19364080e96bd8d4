import { main } from "./main.ts"

/** Connects the command to this process: its arguments, its output and Ctrl-C. */
export async function start(folder: string): Promise<void> {
  const cancel = new AbortController()
  // Handled once: a second Ctrl-C ends the process at once.
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () => cancel.abort(new Error(`cancelled by ${name}`)))

  process.exitCode = await main({
    args: process.argv.slice(2),
    folder,
    signal: cancel.signal,
    out: (text) => process.stdout.write(`${text}\n`),
    say: (text) => process.stderr.write(`${text}\n`),
  })
}
