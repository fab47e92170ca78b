alter table stays add column breakfast boolean;
