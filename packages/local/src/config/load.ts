import { dirname, join, resolve } from "node:path"
import {
  type Directories,
  defaultDirectories,
  type Surroundings,
  SYSTEM_DATA_DIR,
} from "./directories.ts"
import { type ConfigFile, readConfigFile } from "./file.ts"
import { CONFIG_FILE_VARIABLE, flagName, VARIABLE_PREFIX, variableName } from "./names.ts"
import { badValue, invalidConfig, type Problem, unknownKey } from "./problem.ts"
import { Config, type ConfigKey, KEYS, type KeyEntry } from "./schema.ts"

/** The origin of a value that was given nowhere. */
const DEFAULT = "default"

export interface ConfigInput extends Surroundings {
  /** The given flags by key: `{ port: "0" }`. */
  readonly flags: Readonly<Record<string, unknown>>
  /** The file that `--config` names. */
  readonly configFile?: string | undefined
  readonly workingDir: string
}

export interface LoadedConfig {
  readonly config: Config & { readonly keysFile: string }
  /** The flag, variable or file that each value came from; "default" where none was given. */
  readonly origins: Readonly<Record<ConfigKey, string>>
  /** The data directory of root's server, for a user who is not root and names none. */
  readonly systemDataDir: string | undefined
  /** The file that was looked for, and whether it was there. */
  readonly file: { readonly path: string; readonly present: boolean }
}

/** A place that values come from. */
interface Source {
  readonly values: Readonly<Record<string, unknown>>
  /** The spelling of a key in this place. */
  readonly spell: (key: string) => string
  /** The name of the place that a key came from. */
  readonly label: (key: string) => string
  readonly keys: readonly KeyEntry[]
  /** The directory that relative paths are relative to. */
  readonly baseDir: string
}

/** The effective configuration: flags over environment over file over defaults. Refuses with every mistake at once. */
export const loadConfig = (input: ConfigInput): LoadedConfig => {
  const directories = defaultDirectories(input)
  const file = readFile(input, directories)
  const sources = [fromFlags(input), fromEnvironment(input), fromFile(file)]

  const problems = [...file.problems, ...sources.flatMap(check), ...checkSecrets(file)]
  if (problems.length > 0) throw invalidConfig(problems)

  const chosen = KEYS.map((key) => choose(key, sources, directories))
  const config = Config.parse(Object.fromEntries(chosen.map(({ name, value }) => [name, value])))
  const origins = Object.fromEntries(
    chosen.map(({ name, origin }) => [name, origin]),
  ) as LoadedConfig["origins"]
  return {
    config: { ...config, keysFile: config.keysFile ?? join(config.dataDir, "keys.env") },
    origins,
    systemDataDir: input.isRoot || origins.dataDir !== DEFAULT ? undefined : SYSTEM_DATA_DIR,
    file: { path: file.path, present: file.present },
  }
}

const readFile = (input: ConfigInput, directories: Directories): ConfigFile => {
  const { configFile = input.env[CONFIG_FILE_VARIABLE], workingDir } = input
  if (configFile === undefined) return readConfigFile(directories.configFile, undefined)
  const path = resolvePath(configFile, workingDir, directories.home)
  return readConfigFile(path, input.configFile === undefined ? CONFIG_FILE_VARIABLE : "--config")
}

const fromFlags = ({ flags, workingDir }: ConfigInput): Source => ({
  values: Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined)),
  spell: flagName,
  label: (key) => `flag ${flagName(key)}`,
  keys: KEYS.filter(({ secret }) => secret !== true),
  baseDir: workingDir,
})

const fromEnvironment = ({ env, workingDir }: ConfigInput): Source => {
  const keyOf = new Map(KEYS.map(({ name }) => [variableName(name), name]))
  const ours = Object.entries(env).filter(
    ([name, value]) =>
      name.startsWith(VARIABLE_PREFIX) && name !== CONFIG_FILE_VARIABLE && value !== undefined,
  )
  const spell = (key: string) => (key.startsWith(VARIABLE_PREFIX) ? key : variableName(key))
  return {
    values: Object.fromEntries(ours.map(([name, value]) => [keyOf.get(name) ?? name, value])),
    spell,
    label: (key) => `environment variable ${spell(key)}`,
    keys: KEYS,
    baseDir: workingDir,
  }
}

const fromFile = ({ path, values }: ConfigFile): Source => ({
  values,
  spell: (key) => key,
  label: () => path,
  keys: KEYS,
  baseDir: dirname(path),
})

const check = ({ values, spell, label, keys }: Source): Problem[] =>
  Object.entries(values).flatMap(([name, value]) => {
    const key = keys.find((entry) => entry.name === name)
    if (key === undefined) {
      const known = keys.map((entry) => spell(entry.name))
      return [unknownKey(spell(name), known, label(name))]
    }
    return key.type.safeParse(value).success ? [] : [badValue(key, value, label(name))]
  })

/** Refuses a secret in a file that others may read. */
const checkSecrets = ({ path, values, isPrivate }: ConfigFile): Problem[] =>
  KEYS.filter(({ name, secret }) => secret && !isPrivate && Object.hasOwn(values, name)).map(
    ({ name }) => ({
      path: name,
      source: path,
      allowed: "in a file of mode 600",
      message: `${name}: other users may read it (from ${path}); to mend it: chmod 600 ${path}`,
    }),
  )

/** The value of a key from the first source that has it, and the name of that source; else its default. */
const choose = (key: KeyEntry, sources: readonly Source[], directories: Directories) => {
  const { name } = key
  const source = sources.find(({ values }) => Object.hasOwn(values, name))
  if (source === undefined) {
    return { name, value: key.defaultValue(directories), origin: DEFAULT }
  }
  const value = source.values[name]
  return {
    name,
    value: key.path === true ? resolvePath(String(value), source.baseDir, directories.home) : value,
    origin: source.label(name),
  }
}

const resolvePath = (path: string, baseDir: string, home: string): string =>
  path === "~" || path.startsWith("~/") ? join(home, path.slice(1)) : resolve(baseDir, path)
