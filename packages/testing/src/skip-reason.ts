/** How the title of a skipped suite or test carries its reason, from where it is known to the report. */
export const withReason = (title: string, reason: string): string => `${title} ${MARK}${reason}]`

export const hasReason = (title: string): boolean => title.includes(MARK)

const MARK = "[skipped: "
