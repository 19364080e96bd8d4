/** The environment variable that names the configuration file. */
export const CONFIG_FILE_VARIABLE = "BERTH_CONFIG"
/** Every variable with this prefix belongs to Berth, so an unknown one is a mistake. */
export const VARIABLE_PREFIX = "BERTH_"

/** The variable of a key: `dataDir` → `BERTH_DATA_DIR` */
export const variableName = (key: string): string =>
  VARIABLE_PREFIX + words(key).join("_").toUpperCase()

/** The flag of a key: `dataDir` → `--data-dir` */
export const flagName = (key: string): string => `--${words(key).join("-")}`

const words = (key: string): string[] => key.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
