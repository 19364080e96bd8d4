import { sitAt } from "../sandboxes/pty.ts"

/** The acts of a person while a command runs that does not end by itself. */
export type Meanwhile = (person: Person) => Promise<void>

export interface Person {
  /** Types keys. */
  type(keys: string): void
  /** Resolves when the screen shows it, after what was typed last. */
  see(pattern: RegExp): Promise<void>
}

/** A person at a terminal with bash in it, who types one line after another. */
export const sitAtBash = (env: NodeJS.ProcessEnv) => {
  const terminal = sitAt(["bash", "--noprofile", "--norc"], { ...env, TERM: "dumb", PS1: "\\#> " })
  let count = 1
  let typedAt = 0
  const see = async (pattern: RegExp): Promise<void> => {
    for (;;) {
      const shown = terminal.shown()
      if (pattern.test(shown.slice(typedAt))) return
      // More than there was.
      await terminal.see(new RegExp(`^[^]{${shown.length + 1}}`))
    }
  }
  const type = (keys: string) => terminal.type(keys)
  /** The prompt of the shell has the number of the command that it waits for. */
  const prompted = () => see(new RegExp(`\\n${count}> `))
  const enter = async (line: string, meanwhile?: Meanwhile): Promise<void> => {
    typedAt = terminal.shown().length
    type(`${line}\n`)
    await meanwhile?.({ type, see })
    count += 1
    await prompted()
  }
  return {
    /** Types a line as it stands, waits until the shell has its prompt again, and gives the exit status. */
    run: async (line: string, meanwhile?: Meanwhile): Promise<number> => {
      await enter(line, meanwhile)
      const before = terminal.shown().length
      // Written in two parts, so that what is typed is told from what is said.
      await enter(`echo "sta""tus=$?"`)
      return Number(/status=(\d+)/.exec(terminal.shown().slice(before))?.[1] ?? Number.NaN)
    },
    /** The whole text that the screen has shown. */
    screen: () => terminal.shown().replaceAll("\r", ""),
    close: async () => {
      type("exit\n")
      await terminal.ended
      await terminal.close()
    },
  }
}
