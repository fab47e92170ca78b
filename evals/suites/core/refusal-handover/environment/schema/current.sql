create table guests (id integer primary key, name text, phone text);
create table stays (id integer primary key, guest integer, arrival date, nights integer);
