import { homedir } from "node:os"
import { type LoadedConfig, loadConfig } from "./load.ts"

/** The options of the command line. */
export interface HostOptions {
  /** The flags, by configuration key. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly configFile?: string | undefined
}

/** The configuration of this process: its options, over the environment and the file of its user. */
export const configHere = ({ flags, configFile }: HostOptions): LoadedConfig =>
  loadConfig({
    flags,
    configFile,
    env: process.env,
    home: homedir(),
    isRoot: process.geteuid?.() === 0,
    workingDir: process.cwd(),
  })
